/* glibc 2.36: std::random_device's source. getentropy is from glibc 2.25 and draws on the same generator. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}
