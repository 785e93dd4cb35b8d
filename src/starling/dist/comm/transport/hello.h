#pragma once

#include "starling/dist/comm/transport/measure_links.h"
#include "starling/dist/comm/transport/transport_comm.h"

namespace starling::dist {

// Initial handshake: ranks exchange identity and options and agree on the link costs. Throws Error naming the rank that
// differs in version, world, epoch or options. Collective.
ChoiceRules agree_on_rules(Transport& transport, const CommGroup& group, const TransportCommOptions& options);

}  // namespace starling::dist
