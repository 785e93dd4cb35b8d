#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace starling::dist {

// Library beside the one that this code is in, loaded when ranks ask for it: a package for machines whose MPI is not
// known must neither need one nor bring another one along (STARLING_MPI_PLUGIN). Never closed: its threads, and MPI,
// run until the process ends.
class Plugin {
 public:
  Plugin(std::string_view file, std::initializer_list<const char*> functions);  // that it must have

  bool loaded() const { return library_ != nullptr; }
  const std::string& error() const { return error_; }  // the loader's words, where it is not loaded

  // A function of it by name, one of those that it must have; null where it is not loaded.
  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(const char* name) const;

  void* library_ = nullptr;
  std::string error_;
};

}  // namespace starling::dist
