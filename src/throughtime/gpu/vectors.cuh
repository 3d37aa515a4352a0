// The elements of 16 bytes as numbers.

constexpr int EACH = 16 / ELEMENT;

struct Values { float v[EACH]; };

INLINE Values unpacked(const Words& words) {
    const word given[4] = {words.x, words.y, words.z, words.w};
    Values values;
    UNROLL for (int i = 0; i < EACH / 2; ++i) {
        const Pair pair = pair_of(ELEMENT == 2 ? Raw{given[i], 0} : Raw{given[2 * i], given[2 * i + 1]});
        values.v[2 * i] = pair.v[0], values.v[2 * i + 1] = pair.v[1];
    }
    return values;
}

INLINE Words repacked(const Values& values) {
    word made[4];
    UNROLL for (int i = 0; i < EACH / 2; ++i) {
        const Pair pair = {{values.v[2 * i], values.v[2 * i + 1]}};
        if constexpr (ELEMENT == 2) made[i] = packed(pair);
        else made[2 * i] = as_word(pair.v[0]), made[2 * i + 1] = as_word(pair.v[1]);
    }
    return {made[0], made[1], made[2], made[3]};
}
