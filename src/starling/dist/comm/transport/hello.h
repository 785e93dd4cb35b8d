#pragma once

#include "starling/dist/comm/transport/measure_links.h"
#include "starling/dist/comm/transport/transport_comm.h"

namespace starling {

// Before the first operation: all ranks tell each other who they are and what they were told, and find out alike what
// links cost. Throws Error naming the rank that differs in version, world, epoch or options. Collective.
ChoiceRules agree_on_rules(Transport& transport, const CommGroup& group, const TransportCommOptions& options);

}  // namespace starling
