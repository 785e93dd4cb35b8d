#pragma once

#include <string>
#include <string_view>

#include "starling/tensor/tensor.h"

namespace starling {

// Position in control flow, so that random calls draw the same numbers eager and traced: each control-flow call has its
// own scope name, calls within it are counted from zero in every trip, and the trip enters the key.

// Name of the next control-flow call in this scope: "while0", "while1", …
std::string next_control_name(std::string_view kind);

// Scope of one trip (i64[]) of a loop whose body is being run or traced. Nests.
class TripScope {
 public:
  explicit TripScope(Tensor trip);
  ~TripScope();
  TripScope(const TripScope&) = delete;
  TripScope& operator=(const TripScope&) = delete;

 private:
  friend Tensor key_of_trip(const Tensor& key);
  Tensor trip_;
  TripScope* outer_;
};

// Key combined with the trips of all enclosing loops; the key itself outside loops.
Tensor key_of_trip(const Tensor& key);
bool in_loop();

// Scope that hides enclosing loops: a function being compiled means the same wherever it is called.
class OutsideLoops {
 public:
  OutsideLoops();
  ~OutsideLoops();
  OutsideLoops(const OutsideLoops&) = delete;
  OutsideLoops& operator=(const OutsideLoops&) = delete;

 private:
  TripScope* before_;
};

}  // namespace starling
