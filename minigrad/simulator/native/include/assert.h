// A failed assert of a kernel becomes a KernelError.
#undef assert
#define assert(condition) ((condition) ? (void)0 : minigrad_assert_failed(#condition, __FILE__, __LINE__))
