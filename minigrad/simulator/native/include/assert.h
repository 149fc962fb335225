// A failed assert of a kernel becomes a KernelError. As in C, each include looks whether NDEBUG turns asserts off.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : minigrad_assert_failed(#condition, __FILE__, __LINE__))
#endif
