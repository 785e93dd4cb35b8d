#include "starling/train/run/launch_id.h"

#include <cstdlib>
#include <string_view>

namespace starling::train {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string launch_id() { return variable("STARLING_LAUNCHED"); }

bool launched_again() {
  const std::string epoch = variable("STARLING_EPOCH");
  return !launch_id().empty() && !epoch.empty() && epoch != "0";
}

}  // namespace starling::train
