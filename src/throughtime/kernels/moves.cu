// Copies of matrices, several in one launch: padded with zeros, cropped, transposed; and memory that is made void.
//
// Constants from the host: ELEMENT (bytes), WARPS, MOST, FILLED (bytes of void a block writes), SHARED_BYTES.

constexpr int TILE = 64, LANES_EACH = TILE / 32, ROWS_EACH = TILE / WARPS;
static_assert(TILE * (TILE + 1) * ELEMENT == SHARED_BYTES, "the host and the kernel disagree about shared memory");

template <int BYTES> struct Sized { typedef word Type; };
template <> struct Sized<2> { typedef unsigned short Type; };
typedef Sized<ELEMENT>::Type Element;

struct Move {  // groups of rows of columns
    long long blocks;
    char* to;
    const char* from;                       // nowhere: `rows` times 16 bytes of `to` become void
    long long rows, columns;                // to write, in each group
    long long given_rows, given_columns;    // to read; past them are zeros
    long long to_group, to_row, to_column;  // elements from one to the next
    long long from_group, from_row;
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

KERNEL moves(const Moves a) {
    long long block = block_number();
    int number = 0;
    while (block >= a.all[number].blocks) block -= a.all[number++].blocks;
    const Move move = a.all[number];
    if (move.from == nullptr) return make_void(move, block);
    const long long across = (move.columns + TILE - 1) / TILE, down = (move.rows + TILE - 1) / TILE;
    const long long group = block / (across * down), row = block / across % down * TILE, column = block % across * TILE;
    const int warp = thread_number() / 32, lane = thread_number() % 32;
    const Element* from = reinterpret_cast<const Element*>(move.from) + group * move.from_group;
    Element* to = reinterpret_cast<Element*>(move.to) + group * move.to_group;
    const bool turned = move.to_column != 1;  // then a column of the tile is what lies together
    Element* tile = reinterpret_cast<Element*>(shared_bytes());
    Element found[ROWS_EACH][LANES_EACH];
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const long long r = row + i * WARPS + warp, c = column + j * 32 + lane;
        found[i][j] = 0;
        if (r < move.given_rows && c < move.given_columns) found[i][j] = from[r * move.from_row + c];
    }
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = i * WARPS + warp, x = j * 32 + lane;
        if (turned) tile[y * (TILE + 1) + x] = found[i][j];
        else if (row + y < move.rows && column + x < move.columns)
            to[(row + y) * move.to_row + column + x] = found[i][j];
    }
    if (!turned) return;
    join_block();
    UNROLL for (int i = 0; i < ROWS_EACH; ++i) UNROLL for (int j = 0; j < LANES_EACH; ++j) {
        const int y = j * 32 + lane, x = i * WARPS + warp;
        if (row + y < move.rows && column + x < move.columns)
            to[(row + y) * move.to_row + (column + x) * move.to_column] = tile[y * (TILE + 1) + x];
    }
}
