// Copies of matrices, several in one launch: padded with zeros, cropped, transposed, converted to and from float32; and
// memory that is made void.
//
// Constants from the host: KIND, WARPS, MOST, FILLED (bytes of void a block writes), SHARED_BYTES.

constexpr int TILE = 64, LANES_EACH = TILE / 32, ROWS_EACH = TILE / WARPS;
static_assert(TILE * (TILE + 1) * 4 == SHARED_BYTES, "the host and the kernel disagree about shared memory");

enum Conversions { NONE, FROM_FLOAT, TO_FLOAT };

struct Move {  // groups of rows of columns
    long long blocks;
    char* to;
    const char* from;                       // nowhere: `rows` times 16 bytes of `to` become void
    long long rows, columns;                // to write, in each group
    long long given_rows, given_columns;    // to read; past them are zeros
    long long to_group, to_row, to_column;  // elements from one to the next
    long long from_group, from_row;
    long long conversion;
};

struct Moves {
    Move all[MOST];
};

INLINE void make_void(const Move& move, long long block) {
    const long long first = block * (FILLED / 16), end = first + FILLED / 16;
    Words* words = reinterpret_cast<Words*>(move.to);
    for (long long at = first + thread_number(); at < (end < move.rows ? end : move.rows); at += WARPS * 32)
        words[at] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu};
}

INLINE word read(const Move& move, long long at) {
    if (ELEMENT == 4 || move.conversion == FROM_FLOAT) {
        const word value = reinterpret_cast<const word*>(move.from)[at];
        return ELEMENT == 4 ? value : packed({{as_float(value), 0.0f}}) & 0xffffu;
    }
    const word value = reinterpret_cast<const unsigned short*>(move.from)[at];
    return move.conversion == TO_FLOAT ? as_word(pair_of({value, 0}).v[0]) : value;
}

INLINE void write(const Move& move, long long at, word value) {
    if (ELEMENT == 4 || move.conversion == TO_FLOAT) reinterpret_cast<word*>(move.to)[at] = value;
    else reinterpret_cast<unsigned short*>(move.to)[at] = (unsigned short)value;
}

KERNEL moves(const Moves a) {
    long long block = block_number();
    int number = 0;
    while (block >= a.all[number].blocks) block -= a.all[number++].blocks;
    const Move move = a.all[number];
    if (move.from == nullptr) return make_void(move, block);
    const long long across = (move.columns + TILE - 1) / TILE, down = (move.rows + TILE - 1) / TILE;
    const long long group = block / (across * down), row = block / across % down * TILE, column = block % across * TILE;
    const int warp = thread_number() / 32, lane = thread_number() % 32;
    const long long from = group * move.from_group, to = group * move.to_group;
    const bool turned = move.to_column != 1;  // then a column of the tile is what lies together
    word* tile = reinterpret_cast<word*>(shared_bytes());
    word found[ROWS_EACH][LANES_EACH];
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const long long r = row + i * WARPS + warp, c = column + j * 32 + lane;
        found[i][j] = 0;
        if (r < move.given_rows && c < move.given_columns) found[i][j] = read(move, from + r * move.from_row + c);
    }
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = i * WARPS + warp, x = j * 32 + lane;
        if (turned) tile[y * (TILE + 1) + x] = found[i][j];
        else if (row + y < move.rows && column + x < move.columns)
            write(move, to + (row + y) * move.to_row + column + x, found[i][j]);
    }
    if (!turned) return;
    join_block();
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = j * 32 + lane, x = i * WARPS + warp;
        if (row + y < move.rows && column + x < move.columns)
            write(move, to + (row + y) * move.to_row + (column + x) * move.to_column, tile[y * (TILE + 1) + x]);
    }
}
