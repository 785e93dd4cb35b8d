#include "starling/base/thread/stop_request.h"

#include "starling/base/error.h"

namespace starling::detail {

void fail_stopped() { fail("[stop] expected to go on, got a request to stop before the work was done"); }

}  // namespace starling::detail
