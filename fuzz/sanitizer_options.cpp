// What the sanitizers are told unless the environment says otherwise. A decoder's blocks live for microseconds: long stacks and
// a large quarantine for each would cost more than the decoding.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=4:quarantine_size_mb=8:detect_stack_use_after_return=0:allocator_may_return_null=1";
}
