/* What x86.c asks of a processor and of the operating system; a test answers from a table. */
#ifndef CPUWHEELS_PROCESSOR_H
#define CPUWHEELS_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

enum output { EAX, EBX, ECX, EDX };

/* Executes CPUID. Of a leaf above the highest one Intel's processors give the data of the highest basic leaf
 * (Intel SDM volume 2A, "CPUID"): compare with the highest first. */
void execute_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t words[4]);

/* Executes XGETBV with 0: the register state that the operating system saves. The instruction is there only
 * if CPUID.1:ECX[27] OSXSAVE is set. */
uint64_t read_xcr0(void);

/* Asks the operating system to let this process use tile data, and tells whether it does. */
bool request_tiles(void);

#endif
