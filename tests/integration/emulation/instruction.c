/* Executes one instruction of the extension that the argument names, as isaprobe names it. */

#include <stdio.h>
#include <string.h>

static const char tile_configuration[64];

int main(int count, char **arguments) {
    const char *name = count == 2 ? arguments[1] : "";
    if (!strcmp(name, "avx2"))
        __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    else if (!strcmp(name, "fma"))
        __asm__ volatile("vfmadd231ps %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    else if (!strcmp(name, "f16c"))
        __asm__ volatile("vcvtph2ps %%xmm0, %%ymm0" ::: "xmm0");
    else if (!strcmp(name, "avx512f"))
        __asm__ volatile("vpaddd %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
    else if (!strcmp(name, "avx512vl"))
        __asm__ volatile("vpaddd %%ymm16, %%ymm16, %%ymm16" ::: "memory");
    else if (!strcmp(name, "avx512_vnni"))
        __asm__ volatile("vpdpbusd %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
    else if (!strcmp(name, "avx512_bf16"))
        __asm__ volatile("vdpbf16ps %%zmm0, %%zmm0, %%zmm0" ::: "xmm0");
    else if (!strcmp(name, "avx_vnni"))
        __asm__ volatile("%{vex%} vpdpbusd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    else if (!strcmp(name, "gfni"))
        __asm__ volatile("gf2p8mulb %%xmm0, %%xmm0" ::: "xmm0");
    else if (!strcmp(name, "amx_tile"))
        __asm__ volatile("ldtilecfg %0\n\ttilerelease" ::"m"(tile_configuration));
    else
        return 2;
    return 0;
}
