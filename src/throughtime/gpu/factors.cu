// A factor of a product as fast products need it: converted, each row from a boundary of 16 bytes on, padded with zeros,
// and with two more columns, by which the product adds a bias. One thread makes 16 bytes.
//
// Constants from the host: KIND, WARPS, FLOATS (whether the numbers are given in float32, or as they are made), WHOLE
// (whether each given row begins on a boundary of 16 bytes).

struct Factor {
    const char* given;      // [rows, size]
    const float* bias;      // [rows], as two columns, a rounded part and the rest; if null, both are ones
    char* made;             // [.., pitch]
    long long rows, size;   // past them there is padding
    long long added;        // columns for a bias: 2 or none
    long long pitch, vectors;
};

INLINE float element(const char* base, long long index) {
    if constexpr (FLOATS || ELEMENT == 4) return reinterpret_cast<const float*>(base)[index];
    const word half = reinterpret_cast<const unsigned short*>(base)[index];
    return KIND == BF16 ? as_float(half << 16) : unpack_f16(half).v[0];
}

INLINE Values elements(const char* base, long long index) {
    if constexpr (!FLOATS || ELEMENT == 4) return unpacked(load_words(base + index * ELEMENT));
    Values values;
    UNROLL for (int i = 0; i < EACH / 4; ++i) {
        const Words some = load_words(base + (index + 4 * i) * 4);
        values.v[4 * i] = as_float(some.x), values.v[4 * i + 1] = as_float(some.y);
        values.v[4 * i + 2] = as_float(some.z), values.v[4 * i + 3] = as_float(some.w);
    }
    return values;
}

KERNEL factor(const Factor a) {
    const unsigned at = block_number() * (32u * WARPS) + thread_number(), each = a.pitch / EACH;
    if (at >= a.vectors) return;
    const unsigned row = at / each, first = at % each * EACH;
    Values values = {};
    if (row < a.rows) {
        if (WHOLE && first + EACH <= a.size) values = elements(a.given, row * a.size + first);
        else {
            UNROLL for (int e = 0; e < EACH; ++e) {
                const long long column = first + e;
                if (column < a.size) values.v[e] = element(a.given, row * a.size + column);
                else if (column < a.size + a.added) {
                    const float bias = a.bias == nullptr ? 1.0f : a.bias[row];
                    const float coarse = as_float(pack_bf16(bias, 0.0f) << 16);
                    values.v[e] = a.bias == nullptr || column == a.size ? coarse : bias - coarse;
                }
            }
        }
    }
    reinterpret_cast<Words*>(a.made)[at] = repacked(values);
}
