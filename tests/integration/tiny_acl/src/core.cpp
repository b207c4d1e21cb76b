#include "arm_compute/core/Tiny.h"

namespace arm_compute {
const char* tiny_place() { return __FILE__ " for " TINY_ARCH; }
}  // namespace arm_compute
