// The kernels' primitives on a CPU: every thread of every block is a fiber, and all of them take turns, so that
// what one block waits for another can write. Groups of threads meet as on a GPU; memory is read as it is.
typedef unsigned int word;
struct alignas(16) Words { word x, y, z, w; };
struct alignas(8) Pair { float v[2]; };

#define UNROLL
#define ROLLED
#define KERNEL static void
#define KERNEL_BESIDE(BLOCKS) static void
#define INLINE inline

constexpr int LANES = 32;

struct Meeting {  // of the lanes of a warp or the threads of a block
    int arrived = 0, round = 0;
};
struct Warp {
    Meeting meeting;
    bool flags[LANES], any;
    float values[LANES];
    word a[LANES][4], b[LANES][2];
    float (*c[LANES])[4];
};
struct Block {
    Meeting meeting;
    std::vector<char> shared;
    std::vector<Warp> warps;
};
struct Copy {
    void* into;
    const char* from;
    int bytes, group;
};
struct Fiber {
    ucontext_t context;  // to begin with
    jmp_buf place;       // to go on from
    bool begun = false;
    int block, thread;
    bool done = false;
    std::vector<Copy> copies;
    int group = 0;  // of copies, the one still open
};

static std::vector<Block> blocks;
static std::vector<Fiber> fibers;
constexpr size_t STACK = 1 << 16;
static std::vector<char*> stacks;  // kept for the next launch: to clear them would take longer than most kernels
static jmp_buf scheduler;
static Fiber* current;
static void (*body)(const void*);
static const void* given;

// Jumps, not swapcontext, which asks the system for the signal mask at each turn.
inline void yield_turn() {
    if (!_setjmp(current->place)) _longjmp(scheduler, 1);
}
static void give_turn(Fiber& fiber) {
    current = &fiber;
    if (_setjmp(scheduler)) return;
    if (fiber.begun) _longjmp(fiber.place, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
}
inline int thread_number() { return current->thread; }
inline int block_number() { return current->block; }
inline Block& own_block() { return blocks[current->block]; }
inline Warp& own_warp() { return own_block().warps[current->thread / LANES]; }
inline char* shared_bytes() { return own_block().shared.data(); }

template <typename Last> void meet(Meeting& meeting, int size, const Last& last) {
    const int round = meeting.round;
    if (++meeting.arrived == size) {
        last();
        meeting.arrived = 0, ++meeting.round;
    }
    while (meeting.round == round) yield_turn();
}

inline void join_block() { meet(own_block().meeting, LANES * WARPS, [] {}); }

inline bool in_any_lane(bool value) {
    Warp& warp = own_warp();
    warp.flags[current->thread % LANES] = value;
    meet(warp.meeting, LANES, [&] {
        warp.any = false;
        for (bool flag : warp.flags) warp.any |= flag;
    });
    const bool any = warp.any;
    meet(warp.meeting, LANES, [] {});
    if (any) yield_turn();  // someone waits for another block: let it run
    return any;
}

inline float across_lanes(float value, int distance) {
    Warp& warp = own_warp();
    const int lane = current->thread % LANES;
    warp.values[lane] = value;
    meet(warp.meeting, LANES, [] {});
    const float found = warp.values[lane ^ distance];
    meet(warp.meeting, LANES, [] {});
    return found;
}

inline int take_number(int* next) { return (*next)++; }
inline void give_up() { std::fprintf(stderr, "a block waits for what never comes\n"), std::abort(); }
inline void pause(int) {}
inline void fetch(const void*) {}
inline long long times(int count, int bytes) { return static_cast<long long>(count) * bytes; }

inline word load(const void* at) { return *static_cast<const volatile word*>(at); }
struct Two { word a, b; };
inline Two load_two(const void* at) { return {load(at), load(static_cast<const char*>(at) + 4)}; }
inline Words load_words(const void* at) {
    if (reinterpret_cast<uintptr_t>(at) % 16) std::abort();
    return *static_cast<const Words*>(at);
}
inline Words look_words(const void* at) { return load_words(at); }
inline Two look_two(const void* at) { return load_two(at); }
inline void store(void* at, word value) { *static_cast<word*>(at) = value; }
inline void store_two(void* at, word first, word second) { store(at, first), store(static_cast<char*>(at) + 4, second); }
inline void show(void* at, word value) { store(at, value); }
inline void show(void* at, word first, word second) { store_two(at, first, second); }

// Copies are put off as long as the kernel allows, so that reading one too early reads what was there before.
template <int BYTES> void copy_later(char* into, const char* from) {
    if (reinterpret_cast<uintptr_t>(into) % BYTES || reinterpret_cast<uintptr_t>(from) % BYTES) std::abort();
    current->copies.push_back({into, from, BYTES, current->group});
}
inline void copy_later(Words* into, const char* from) { copy_later<16>(reinterpret_cast<char*>(into), from); }
inline void end_copies() { ++current->group; }
template <int LATER> void await_copies() {
    std::vector<Copy> later;
    for (const Copy& copy : current->copies)
        if (copy.group < current->group - LATER) std::memcpy(copy.into, copy.from, copy.bytes);
        else later.push_back(copy);
    current->copies = later;
}

inline float as_float(word value) { float f; std::memcpy(&f, &value, 4); return f; }
inline word as_word(float value) { word w; std::memcpy(&w, &value, 4); return w; }

inline word round_tf32(word value) {  // to 10 bits, ties away from zero
    return (value & 0x7f800000u) == 0x7f800000u ? value : (value + 0x1000u) & 0xffffe000u;
}

inline word half_bits(float value) { _Float16 h = static_cast<_Float16>(value); uint16_t b; std::memcpy(&b, &h, 2); return b; }
inline float half_value(word bits) { uint16_t b = bits; _Float16 h; std::memcpy(&h, &b, 2); return static_cast<float>(h); }
inline word brain_bits(float value) {
    if (value != value) return 0x7fff;
    const word w = as_word(value);
    return (w + 0x7fffu + (w >> 16 & 1)) >> 16;
}
inline word pack_bf16(float low, float high) { return brain_bits(low) | brain_bits(high) << 16; }
inline word pack_f16(float low, float high) { return half_bits(low) | half_bits(high) << 16; }
inline Pair unpack_f16(word packed) { return {{half_value(packed & 0xffff), half_value(packed >> 16)}}; }

// One matrix instruction: register i of lane l holds the elements that the PTX manual says it holds.
template <int PER_WORD, typename Value>
void multiply(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1, Value value) {
    Warp& warp = own_warp();
    const int lane = current->thread % LANES;
    const word a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    std::memcpy(warp.a[lane], a, sizeof a), std::memcpy(warp.b[lane], b, sizeof b);
    warp.c[lane] = &c;
    meet(warp.meeting, LANES, [&] {
        constexpr int DEPTH = 8 * PER_WORD;
        float left[16][DEPTH], right[DEPTH][8];
        for (int l = 0; l < LANES; ++l)
            for (int e = 0; e < PER_WORD; ++e) {
                const int k = l % 4 * PER_WORD + e;
                for (int i = 0; i < 4; ++i) left[l / 4 + i % 2 * 8][k + i / 2 * 4 * PER_WORD] = value(warp.a[l][i], e);
                for (int i = 0; i < 2; ++i) right[k + i * 4 * PER_WORD][l / 4] = value(warp.b[l][i], e);
            }
        for (int l = 0; l < LANES; ++l)
            for (int i = 0; i < 4; ++i)
                for (int k = 0; k < DEPTH; ++k)
                    (*warp.c[l])[i] += left[l / 4 + i / 2 * 8][k] * right[k][l % 4 * 2 + i % 2];
    });
}
inline void multiply_bf16(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
    multiply<2>(c, a0, a1, a2, a3, b0, b1, [](word w, int e) { return as_float(e ? w & 0xffff0000u : w << 16); });
}
inline void multiply_f16(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
    multiply<2>(c, a0, a1, a2, a3, b0, b1, [](word w, int e) { return half_value(e ? w >> 16 : w & 0xffff); });
}
inline void multiply_tf32(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1) {
    multiply<1>(c, a0, a1, a2, a3, b0, b1, [](word w, int) { return as_float(w & 0xffffe000u); });
}

inline float quick_exponential(float x) { return std::exp(x); }
inline float quick_reciprocal(float x) { return 1.0f / x; }

static void enter() {
    body(given);
    current->done = true;
    yield_turn();
}

// All blocks at once; shared memory begins as rubbish, as on a GPU.
static void run_blocks(int count, int shared, void (*kernel)(const void*), const void* arguments) {
    body = kernel, given = arguments;
    blocks.assign(count, {});
    fibers.assign(static_cast<size_t>(count) * LANES * WARPS, {});
    for (Block& block : blocks) {
        block.shared.assign(shared + 16, static_cast<char>(0xff));
        block.warps.resize(WARPS);
    }
    for (size_t i = 0; i < fibers.size(); ++i) {
        Fiber& fiber = fibers[i];
        fiber.block = i / (LANES * WARPS), fiber.thread = i % (LANES * WARPS);
        if (i == stacks.size()) stacks.push_back(static_cast<char*>(std::malloc(STACK)));
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks[i];
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
    int sweep = 0;
    for (bool going = true; going; ++sweep) {
        going = false;
        for (Fiber& fiber : fibers) {
            if (fiber.done) continue;
            going = true;
            // Warps run at different speeds, so that one that does not wait for another gets ahead of it.
            if (sweep % (1 + (fiber.block + fiber.thread / LANES * 5) % 7)) continue;
            give_turn(fiber);
        }
    }
    fibers.clear(), blocks.clear();
}
