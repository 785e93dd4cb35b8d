#include "starling/dist/comm/transport/plugin.h"

#include <dlfcn.h>

namespace starling::dist {
namespace {

// With the slash at its end; empty where the loader knows no path.
std::string own_folder() {
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&own_folder), &own);
  const std::string file = own.dli_fname ? own.dli_fname : "";
  return file.substr(0, file.rfind('/') + 1);
}

}  // namespace

Plugin::Plugin(std::string_view file, std::initializer_list<const char*> functions) {
  library_ = dlopen(own_folder().append(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) error_ = dlerror();
  for (const char* name : functions) {
    if (!library_ || address(name)) continue;
    error_ = dlerror();
    library_ = nullptr;
  }
}

void* Plugin::address(const char* name) const { return library_ ? dlsym(library_, name) : nullptr; }

}  // namespace starling::dist
