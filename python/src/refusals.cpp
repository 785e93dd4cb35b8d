#include "refusals.h"

#include <array>
#include <string_view>

namespace starling::python {
namespace {

// Entries of nanobind for its functions, of which there are a few: by number of arguments, keywords and overloads.
constexpr std::size_t kMost = 12;
constexpr std::size_t kCount = (std::size_t{1} << 31) - 1;  // bits above it are marks of Python's and nanobind's
std::array<vectorcallfunc, kMost>& entries() {
  static std::array<vectorcallfunc, kMost> known{};
  return known;
}

bool is_refusal(PyObject* error) {
  const nb::object text = nb::steal(PyObject_Str(error));
  const char* const words = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (!words) PyErr_Clear();
  return words && std::string_view(words).find("(): incompatible function arguments.") != std::string_view::npos;
}

// The arguments of a call, as _refusals.py looks at them; an object that is being made is not among them.
nb::object words_for(PyObject* error, PyObject* const* args, std::size_t count, PyObject* names) {
  nb::list values;
  nb::dict keywords;
  const nb::str text{nb::handle(error)};
  const bool making = std::string_view(text.c_str()).starts_with("__init__(");
  for (std::size_t i = making ? 1 : 0; i < count; ++i) values.append(nb::handle(args[i]));
  const std::size_t named = names ? static_cast<std::size_t>(PyTuple_GET_SIZE(names)) : 0;
  for (std::size_t i = 0; i < named; ++i)
    keywords[nb::handle(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)))] = nb::handle(args[count + i]);
  const nb::object kind = making && count > 0 ? nb::object(nb::handle(args[0]).type().attr("__name__")) : nb::none();
  return nb::module_::import_("starling._refusals").attr("explained")(text, kind, values, keywords);
}

void explain(PyObject* const* args, std::size_t count, PyObject* names) {
  thread_local bool explaining = false;  // what is tried meanwhile may be refused, too
  if (explaining || !PyErr_ExceptionMatches(PyExc_TypeError)) return;
  nb::python_error refused;  // takes the error
  nb::object words;
  if (is_refusal(refused.value().ptr())) {
    explaining = true;
    try {
      words = words_for(refused.value().ptr(), args, count, names);
    } catch (const std::exception&) {  // while stubs are made there is no package around this part
      PyErr_Clear();
    }
    explaining = false;
  }
  if (words.is_valid() && !words.is_none())
    PyErr_SetObject(PyExc_TypeError, words.ptr());
  else
    refused.restore();
}

template <std::size_t I>
PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  PyObject* const result = entries()[I](self, args, flags, names);
  if (!result) [[unlikely]]
    explain(args, flags & kCount, names);
  return result;
}

template <std::size_t... I>
constexpr std::array<vectorcallfunc, kMost> calls(std::index_sequence<I...>) {
  return {&call<I>...};
}

// Puts our entry before nanobind's in one function.
void tell_refusals_of(nb::handle function) {
  static constexpr auto kCalls = calls(std::make_index_sequence<kMost>());
  const Py_ssize_t offset = Py_TYPE(function.ptr())->tp_vectorcall_offset;
  auto& entry = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function.ptr()) + offset);
  for (std::size_t i = 0; i < kMost; ++i) {
    if (entry == kCalls[i]) return;
    if (entries()[i] == nullptr) entries()[i] = entry;
    if (entries()[i] != entry) continue;
    entry = kCalls[i];
    return;
  }
}

bool is_function(nb::handle given) {
  const std::string_view kind = Py_TYPE(given.ptr())->tp_name;
  return kind == "nanobind.nb_func" || kind == "nanobind.nb_method";
}

void tell_refusals_in(nb::handle names) {
  for (nb::handle value : nb::list(nb::handle(names).attr("values")())) {
    if (is_function(value)) tell_refusals_of(value);
    if (PyObject_TypeCheck(value.ptr(), &PyProperty_Type)) {
      for (const char* part : {"fget", "fset"})
        if (const nb::object own = value.attr(part); is_function(own)) tell_refusals_of(own);
    }
  }
}

}  // namespace

void tell_refusals(nb::module_& m) {
  tell_refusals_in(m.attr("__dict__"));
  for (nb::handle value : nb::list(m.attr("__dict__").attr("values")()))
    if (PyType_Check(value.ptr())) tell_refusals_in(value.attr("__dict__"));
}

}  // namespace starling::python
