#include "starling/data/source.h"

namespace starling::data {

void register_sources(SourceKinds& into);  // generated

const SourceKinds& source_kinds() {
  static const SourceKinds kinds = [] {
    SourceKinds made;
    register_sources(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling::data
