#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "starling/base/error.h"

namespace starling::cli {

// What the program ends with.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;  // the command line or the job file is wrong
inline constexpr int kInterrupted = 130;

// Thrown when what the user wrote is at fault, not what happened.
class UsageError : public Error {
 public:
  using Error::Error;
};

using Command = std::function<int()>;

// Each adds one subcommand to the program; parsing it sets `chosen` to what is to be run.
void add_train(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_ops(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_doctor(CLI::App& app, Command& chosen);

// Calls f; an Error it throws becomes a UsageError.
template <class F>
auto as_usage(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    throw UsageError(e.what());
  }
}

}  // namespace starling::cli
