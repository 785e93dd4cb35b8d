#include "starling/data/records/record_reader.h"

#include <algorithm>

namespace starling::data {

const RecordPart* Record::find(std::string_view name) const {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const RecordPart& part) { return part.name == name; });
  return found == parts.end() ? nullptr : &*found;
}

}  // namespace starling::data
