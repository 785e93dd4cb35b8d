#include "starling/cli/commands.h"

namespace starling {

void register_command_inspect(cli::Commands& into) {
  into.describe_group("inspect", "Shows what programs, data, models and runs are made of",
                      {{"inspect run runs/fashion_lenet", "what a run is and how it ended"},
                       {"inspect data houses.csv", "columns of a table"},
                       {"inspect model job.yaml", "layers, shapes and parameters of a job's network"},
                       {"inspect layout job.yaml", "how its parameters lie on a mesh of workers"},
                       {"inspect graph job.yaml", "its step as text"}});
}

}  // namespace starling
