// The product of a block that has all units to itself: nothing is exchanged with other blocks.
//
// Here the units are divided among the warps, 16 each with all their gates, and a warp multiplies the whole inner
// dimension. So a lane has complete sums, of two neighbouring units and two rows, and no shares are added. The rows
// lie in shared memory twice, for the step that reads them and the step that writes the next ones.

template <int GATE_COUNT, int DEPTH, int ROW_BYTES, int IN_REGISTERS, int IN_SHARED>
struct AloneProduct {
    static constexpr int TILES = GATE_COUNT, EACH = (DEPTH + CHUNK - 1) / CHUNK;
    static constexpr int HELD_CHUNKS = IN_REGISTERS < EACH ? IN_REGISTERS : EACH, STAGED_CHUNKS = EACH - HELD_CHUNKS;
    static constexpr int BYTES = STAGED_CHUNKS * TILES * 2 * WARPS * 32 * 16;
    // Rows begin half of the banks apart, so that eight lanes that read two of them meet no bank twice.
    static constexpr int ROW_PITCH = EACH % 2 ? EACH * CHUNK : EACH * CHUNK + CHUNK;
    static constexpr int SHARE_BYTES = 2 * ROWS * ROW_PITCH;
    static constexpr int CHAINS = TILES >= 3 ? 2 : 4;  // a matrix instruction waits for the one that adds to its sums

    Words held[HELD_CHUNKS > 0 ? HELD_CHUNKS : 1][TILES][2];
    const Words* room;
    float sums[TILES][4];

    static INLINE int lane() { return thread_number() % 32; }
    static INLINE bool exists(int chunk) { return chunk * CHUNK + lane() % 4 * 16 < DEPTH; }

    INLINE void settle_in(const char* weight, int, char* memory) {
        Words* own = reinterpret_cast<Words*>(memory) + thread_number();
        room = own;
        const int unit = thread_number() / 32 * 16 + lane() / 4 * 2;
        const auto load = [&](int chunk, int tile, int half) -> Words {
            const long long row = tile * WIDTH + (unit < WIDTH ? unit + half : 0);  // sums of others are not looked at
            if (!exists(chunk)) return {0, 0, 0, 0};
            return rounded(load_words(weight + row * ROW_BYTES + chunk * CHUNK + lane() % 4 * 16));
        };
        UNROLL for (int chunk = 0; chunk < HELD_CHUNKS; ++chunk)
            UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int half = 0; half < 2; ++half)
                held[chunk][tile][half] = load(chunk, tile, half);
        ROLLED for (int chunk = 0; chunk < STAGED_CHUNKS; ++chunk)
            UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int half = 0; half < 2; ++half)
                own[((chunk * TILES + tile) * 2 + half) * (WARPS * 32)] = load(HELD_CHUNKS + chunk, tile, half);
        for (int at = thread_number(); at < SHARE_BYTES / 16; at += WARPS * 32)  // what is past a row counts for nothing
            reinterpret_cast<Words*>(shared_bytes())[at] = {0, 0, 0, 0};
    }

    INLINE void look(const char*, int, int, int) {}

    // Leave numbers of a row for the product that reads this buffer, behind `index` others.
    INLINE void keep(Pair* rows, int buffer, int row, int index, Pair pair) {
        char* at = reinterpret_cast<char*>(rows) + ((buffer & 1) * ROWS + row) * ROW_PITCH;
        store_pair(at, index, pair);
    }

    INLINE void operator()(const char*, int, int, bool, Pair* rows, int buffer) {
        const char* source = reinterpret_cast<const char*>(rows) + ((buffer & 1) * ROWS + lane() / 4) * ROW_PITCH;
        float chains[CHAINS][TILES][4] = {};
        UNROLL for (int chunk = 0; chunk < EACH; ++chunk) {
            const Words b = rounded(*reinterpret_cast<const Words*>(source + chunk * CHUNK + lane() % 4 * 16));
            UNROLL for (int tile = 0; tile < TILES; ++tile) {
                Words low, high;
                if (chunk < HELD_CHUNKS) low = held[chunk][tile][0], high = held[chunk][tile][1];
                else {
                    const Words* at = room + ((chunk - HELD_CHUNKS) * TILES + tile) * 2 * (WARPS * 32);
                    low = at[0], high = at[WARPS * 32];
                }
                accumulate(chains[2 * chunk % CHAINS][tile], low.x, high.x, low.y, high.y, b.x, b.y);
                accumulate(chains[(2 * chunk + 1) % CHAINS][tile], low.z, high.z, low.w, high.w, b.z, b.w);
            }
        }
        UNROLL for (int tile = 0; tile < TILES; ++tile) UNROLL for (int i = 0; i < 4; ++i) {
            sums[tile][i] = chains[0][tile][i];
            UNROLL for (int chain = 1; chain < CHAINS; ++chain) sums[tile][i] += chains[chain][tile][i];
        }
    }

    INLINE Pair total(const Pair*, int gate, const OwnTask&, int turn) const {
        return {{sums[gate][turn], sums[gate][turn + 2]}};
    }
};

template <bool ONE_BLOCK> struct Products {
    template <int... NUMBERS> using Kind = Product<NUMBERS...>;
};
template <> struct Products<true> {
    template <int... NUMBERS> using Kind = AloneProduct<NUMBERS...>;
};
