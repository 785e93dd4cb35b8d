#include "starling/runtime/user_options.h"

namespace starling::runtime {

graph::ProgramOptions program_options(const CompileOptions& options, int threads) {
  return {.disable = options.disable,
          .threads = threads,
          .reuse_memory = options.reuse_memory,
          .reference_only = options.reference_only,
          .check_aliases = options.check_aliases,
          .memory_budget = options.memory_budget,
          .branches = options.branches,
          .overlap = options.overlap,
          .bucket_bytes = options.bucket_bytes,
          .first_bucket_bytes = options.first_bucket_bytes};
}

graph::ProgramOptions program_options(const SessionOptions& options, int threads) {
  return {.disable = options.disable,
          .threads = threads,
          .reuse_memory = options.reuse_memory,
          .reference_only = options.reference_only,
          .check_aliases = options.check_aliases};
}

}  // namespace starling::runtime
