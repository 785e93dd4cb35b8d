#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "starling/dist/ps/wire.h"

namespace starling::train {

// Requests of workers to the leader of their run. Each is answered by one message.
enum class Control : std::uint32_t {
  join,     // answer: how the run begins (RunStart), once it does; before that an empty message, to be asked again; one
            // part alone: it is over
  next,     // answer: PortionAnswer
  wanted,   // part: a portion that the worker has; answer: a part if it is still to be done
  done,     // part: PortionNote; answer: a part if the worker is to send its running statistics after every portion
  settled,  // all that was kept back has been sent
  buffers,  // part: the worker's running statistics, which are the model's from now on
  leave,    // part: counters of the worker's strategy, JSON
  failed,   // part: why
  alive,    // sign of life
};

inline constexpr std::size_t kMostControl = std::size_t{64} << 20;  // bytes of the largest part

template <class T>
dist::ps::Bytes bytes_of_value(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return dist::ps::bytes_of_text(std::string(reinterpret_cast<const char*>(&value), sizeof value));
}

// Value that bytes_of_value() wrote; nullopt: the part has another size.
template <class T>
std::optional<T> value_of(const dist::ps::Bytes& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  if (bytes.size != sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data, sizeof value);
  return value;
}

}  // namespace starling::train
