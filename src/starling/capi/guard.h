#pragma once

#include <fmt/format.h>

#include <exception>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "starling/base/config/config.h"
#include "starling/capi/handles.h"
#include "starling/tensor/out_of_memory.h"

// Checks of arguments, texts of errors and a catch for exceptions, as every function of the C interface has them.
namespace starling::capi {

// Misuse of the interface itself; what the library refuses throws Error.
class BadArgument : public std::exception {
 public:
  explicit BadArgument(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

starling_status failed(starling_status status, const char* text) noexcept;  // keeps the text for starling_error()

// Runs the body of a function: no exception leaves it.
template <class Body>
starling_status guarded(Body&& body) noexcept {
  try {
    body();
    return STARLING_OK;
  } catch (const BadArgument& error) {
    return failed(STARLING_BAD_ARGUMENT, error.what());
  } catch (const OutOfMemory& error) {
    return failed(STARLING_OUT_OF_MEMORY, error.what());
  } catch (const Error& error) {
    return failed(STARLING_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return failed(STARLING_OUT_OF_MEMORY, "[starling] expected more memory than there is");
  } catch (const std::exception& error) {
    return failed(STARLING_INTERNAL, error.what());
  } catch (...) {
    return failed(STARLING_INTERNAL, "[starling] expected no other exception");
  }
}

// The object behind a pointer, or a BadArgument that names it.
template <class T>
T& given(T* pointer, const char* who, const char* what) {
  if (!pointer) throw BadArgument(fmt::format("[{}] expected {}, got null", who, what));
  return *pointer;
}

std::string text_of(const char* text);                            // null: ""
ConfigNode options_of(const char* text, const char* who);         // YAML with or without the braces of a map
Shape shape_of(const int64_t* sizes, int rank, const char* who);  // sizes from 0 on
std::vector<Tensor> inputs_of(starling_tensor* const* inputs, int count, const char* who);  // none of them null
// Hands out new handles, all of them or, without room, none.
void give(std::span<const Tensor> results, starling_tensor** into, int capacity, int* made, const char* who);

}  // namespace starling::capi
