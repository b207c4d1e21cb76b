#include "arm_compute/graph.h"

namespace arm_compute {
int tiny_graph() { return 1; }
}  // namespace arm_compute
