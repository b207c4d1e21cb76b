#pragma once

namespace arm_compute {
const char* tiny_place();
}
