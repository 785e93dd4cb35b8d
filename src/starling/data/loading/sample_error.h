#pragma once

#include <exception>
#include <string>

#include "starling/base/result.h"

namespace starling::data {

// Message of what made a sample unreadable, without the rank: the loader's own message begins with it.
inline std::string message_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours ? message_without_rank(*ours) : error.what();
}

}  // namespace starling::data
