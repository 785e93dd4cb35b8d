#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/dist/comm/threads/threads_comm.h"

namespace starling::dist {

using Comms = std::vector<std::unique_ptr<Comm>>;

// Wraps every rank's Comm at once, since making some decorators is collective.
inline Comms wrap(Comms comms, const std::function<std::unique_ptr<Comm>(std::unique_ptr<Comm>)>& decorate) {
  Comms wrapped(comms.size());
  run_ranks(comms, [&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    wrapped[rank] = decorate(std::move(comms[rank]));
  });
  return wrapped;
}

// Converts to T through float with rounding; a cast would set the raw bits of a 16-bit type.
template <class T>
T rounded(float value) {
  if constexpr (requires { T::from_float(value); }) {
    return T::from_float(value);
  } else {
    return static_cast<T>(value);
  }
}

// A backend under test; a new one is one more line in the suite's kBackends.
struct Backend {
  std::string name;
  std::function<Comms(int world)> make;
};

inline Backend threads_backend() {
  return {"threads", [](int world) { return make_thread_comms(world); }};
}

inline Backend checking_backend() {
  return {"checking", [](int world) { return wrap(make_thread_comms(world), make_checking); }};
}

inline Backend faulty_backend() {
  return {"faulty", [](int world) {
            return wrap(make_thread_comms(world), [](auto inner) { return make_faulty(std::move(inner), {}); });
          }};
}

// Error of each rank's body; empty if it returned.
inline std::vector<std::string> errors_of(const Comms& comms, const std::function<void(Comm&)>& body) {
  std::vector<std::string> errors(comms.size());
  run_ranks(comms, [&](Comm& comm) {
    try {
      body(comm);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  return errors;
}

// Seconds within which what ends at once has ended, on a busy machine, too; otherwise it would wait for minutes.
inline constexpr double kAtOnce = 20;
inline double seconds_since(CommTime start) { return std::chrono::duration<double>(CommClock::now() - start).count(); }

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << "\"";
}

}  // namespace starling::dist
