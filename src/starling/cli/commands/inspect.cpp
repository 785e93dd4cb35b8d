#include "starling/cli/commands.h"

namespace starling {

void register_command_inspect(cli::Commands& into) {
  into.describe_group("inspect", "Shows what programs, data, models and runs are made of");
}

}  // namespace starling
