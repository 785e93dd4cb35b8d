#pragma once

#include "starling/runtime/compile.h"
#include "starling/runtime/session.h"

namespace starling::runtime {

// Options of one program from those of users, which have its fields in the open: only a plain aggregate can be written
// with designators. `threads` is asked for once, by the caller.
graph::ProgramOptions program_options(const CompileOptions& options, int threads);
graph::ProgramOptions program_options(const SessionOptions& options, int threads);

}  // namespace starling::runtime
