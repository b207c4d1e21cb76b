// Prints how many of oneDNN's conversions between float and bfloat16 are wrong: all upper halves of a float, each with
// lower halves that are zero, around a tie, and anything else.

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "common/bfloat16.hpp"

namespace {

// Rounded to the nearest, ties to even; subnormal numbers become zero and NaN a quiet one, as oneDNN states.
uint16_t nearest(uint32_t bits) {
    const uint32_t exponent = bits >> 23 & 0xFF, fraction = bits & 0x7FFFFF;
    if (exponent == 0) return bits >> 16 & 0x8000;
    if (exponent == 0xFF) return bits >> 16 | (fraction != 0 ? 0x40 : 0);
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

} // namespace

int main() {
    int to = 0, from = 0;
    for (uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
        for (const uint32_t lower : {0u, 1u, 0x1234u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
            const uint32_t bits = upper << 16 | lower;
            float number;
            std::memcpy(&number, &bits, sizeof number);
            to += dnnl::impl::bfloat16_t(number).raw_bits_ != nearest(bits);
        }
        const float number = dnnl::impl::bfloat16_t(uint16_t(upper), true);
        uint32_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        from += bits != upper << 16;
    }
    std::printf("%d %d\n", to, from);
}
