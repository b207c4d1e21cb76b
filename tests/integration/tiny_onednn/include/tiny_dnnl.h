#ifdef DNNL_DLL
#define DNNL_API __attribute__((visibility("default")))
#else
#define DNNL_API
#endif

DNNL_API float tiny_multiply(float a, float b);
DNNL_API float tiny_divide(float a, float b);
