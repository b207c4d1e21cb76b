/* Of oneDNN's own header, which CMake completes, this is all that its conversions need. */
#define DNNL_RUNTIME_NONE 0
#define DNNL_CPU_RUNTIME DNNL_RUNTIME_NONE
#define DNNL_API
