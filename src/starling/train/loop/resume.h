#pragma once

namespace starling {

enum class Resume { automatic, none };  // from the newest sound checkpoint, or from the beginning

}  // namespace starling
