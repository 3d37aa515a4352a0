// What the kernels ask of the hardware, and nothing else: the tests put a header for the CPU in its place.

typedef unsigned int word;
struct alignas(16) Words { word x, y, z, w; };
struct alignas(8) Pair { float v[2]; };

#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#define KERNEL KERNEL_BESIDE(1)
#define KERNEL_BESIDE(BLOCKS) extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS)  // on one multiprocessor
#define INLINE __device__ __forceinline__

extern __shared__ __align__(16) char shared_memory[];

INLINE int thread_number() { return threadIdx.x; }
INLINE int block_number() { return blockIdx.x; }
INLINE char* shared_bytes() { return shared_memory; }
INLINE void join_block() { __syncthreads(); }
INLINE bool in_any_lane(bool value) { return __any_sync(0xffffffffu, value); }
INLINE float across_lanes(float value, int distance) { return __shfl_xor_sync(0xffffffffu, value, distance); }
INLINE int take_number(int* next) { return atomicAdd(next, 1); }  // each thread another one
INLINE void give_up() { __trap(); }

INLINE void pause(int cycles) {
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}

// A product whose sum with an address is one instruction; the compiler would add up step by step, in two each.
INLINE long long times(int count, int bytes) {
    long long found;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(found) : "r"(count), "r"(bytes));
    return found;
}

// Into the second-level cache, for a load that comes later.
INLINE void fetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" :: "l"(at)); }

// Loads are volatile so that they stay where they are written: ahead of the waiting that hides them.
INLINE word load(const void* at) {
    word found;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(found) : "l"(at) : "memory");
    return found;
}

struct Two { word a, b; };
INLINE Two load_two(const void* at) {
    Two f;
    asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(f.a), "=r"(f.b) : "l"(at) : "memory");
    return f;
}

INLINE Words load_words(const void* at) {
    Words f;
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.x), "=r"(f.y), "=r"(f.z), "=r"(f.w) : "l"(at));
    return f;
}

// What another block may be writing meanwhile: past the first-level cache, each word whole.
INLINE Words look_words(const void* at) {
    Words f;
    asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f.x), "=r"(f.y), "=r"(f.z), "=r"(f.w) : "l"(at) : "memory");
    return f;
}

INLINE Two look_two(const void* at) {
    Two f;
    asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];" : "=r"(f.a), "=r"(f.b) : "l"(at) : "memory");
    return f;
}

INLINE void show(void* at, word value) {
    asm volatile("st.relaxed.gpu.global.b32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}

INLINE void show(void* at, word first, word second) {
    asm volatile("st.relaxed.gpu.global.v2.b32 [%0], {%1, %2};" :: "l"(at), "r"(first), "r"(second) : "memory");
}

INLINE void store(void* at, word value) { *static_cast<word*>(at) = value; }

INLINE void store_two(void* at, word first, word second) {
    *static_cast<uint2*>(at) = make_uint2(first, second);
}

INLINE void copy_later(Words* into, const char* from) {  // into shared memory, past the registers
    const word at = static_cast<word>(__cvta_generic_to_shared(into));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from) : "memory");
}
template <int BYTES> INLINE void copy_later(char* into, const char* from) {  // 4 or 8 bytes, where 16 do not lie
    const word at = static_cast<word>(__cvta_generic_to_shared(into));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(at), "l"(from), "n"(BYTES) : "memory");
}
INLINE void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> INLINE void await_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATER) : "memory");
}

INLINE float as_float(word value) { return __uint_as_float(value); }
INLINE word as_word(float value) { return __float_as_uint(value); }

INLINE word round_tf32(word value) {
    word rounded;
    // Volatile, or the compiler would keep the parts of all held weights in twice the registers.
    asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(as_float(value)));
    return rounded;
}

INLINE word pack_bf16(float low, float high) {
    word packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

INLINE word pack_f16(float low, float high) {
    word packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

INLINE Pair unpack_f16(word packed) {
    Pair pair;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(pair.v[0]), "=f"(pair.v[1]) : "r"(packed));
    return pair;
}

#define MULTIPLY(name, shape, type)                                                                           \
    INLINE void name(float (&c)[4], word a0, word a1, word a2, word a3, word b0, word b1) {                  \
        asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "                 \
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                                   \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                  \
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                          \
    }
MULTIPLY(multiply_bf16, "m16n8k16", "bf16")
MULTIPLY(multiply_f16, "m16n8k16", "f16")
MULTIPLY(multiply_tf32, "m16n8k8", "tf32")

// Hardware exponent and reciprocal: together within 2e-7 of the truth, far inside a rounding of tf32 or bf16.
INLINE float quick_exponential(float x) {
    float found;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(1.44269504f * x));
    return found;
}
INLINE float quick_reciprocal(float x) {
    float found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}
