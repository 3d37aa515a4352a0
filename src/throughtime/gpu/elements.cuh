// Two neighbouring elements of a tensor, in memory and as numbers. Constant from the host: KIND.

enum Kinds { FLOAT, TF32, BF16, F16 };

constexpr int ELEMENT = KIND <= TF32 ? 4 : 2;

typedef Two Raw;  // two elements as they came, so that nothing waits for them yet

INLINE Raw load_raw(const char* base, long long index) {
    if constexpr (ELEMENT == 2) return {load(base + 2 * index), 0};
    else return load_two(base + 4 * index);
}

INLINE Pair pair_of(Raw raw) {
    if constexpr (KIND == BF16) return {{as_float(raw.a << 16), as_float(raw.a & 0xffff0000u)}};
    else if constexpr (KIND == F16) return unpack_f16(raw.a);
    else return {{as_float(raw.a), as_float(raw.b)}};
}

INLINE Pair load_pair(const char* base, long long index) { return pair_of(load_raw(base, index)); }

INLINE Pair load_pair_or_zero(const char* base, long long index) {
    return base == nullptr ? Pair{{0.0f, 0.0f}} : load_pair(base, index);
}

INLINE word packed(Pair pair) {
    return KIND == BF16 ? pack_bf16(pair.v[0], pair.v[1]) : pack_f16(pair.v[0], pair.v[1]);
}

INLINE void store_pair(char* base, long long index, Pair pair) {
    if constexpr (ELEMENT == 2) store(base + 2 * index, packed(pair));
    else store_two(base + 4 * index, as_word(pair.v[0]), as_word(pair.v[1]));
}

INLINE float exponential(float x) { return KIND == FLOAT ? expf(x) : quick_exponential(x); }

INLINE float sigmoid(float x) {
    if constexpr (KIND == FLOAT) return 1.0f / (1.0f + expf(-x));
    else return quick_reciprocal(1.0f + quick_exponential(-x));
}

INLINE float hyperbolic_tangent(float x) {
    if constexpr (KIND == FLOAT) return tanhf(x);
    else return 1.0f - 2.0f * quick_reciprocal(1.0f + quick_exponential(2.0f * x));
}
