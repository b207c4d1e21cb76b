#pragma once

namespace arm_compute {
int tiny_graph();
}
