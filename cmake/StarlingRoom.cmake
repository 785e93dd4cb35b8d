# starling_room(name [HOT|COLD]): an OBJECT library `starling_<name>` of every .cpp below src/starling/<name>. In release builds
# HOT rooms, which have loops over elements, are compiled with -O3; COLD ones, which run once or once a step, with -O1.
#
# Optional parts live in folders: files below */cuda/ are compiled when STARLING_CUDA is on; files named no_cuda.cpp when it
# is off; */protobuf/ and no_protobuf.cpp alike, and messages are made of the .proto files there; and so for */jpeg/,
# */png/, */hdf5/, */gloo/, */mpi/ and */zmq/. Every file in ops/families, kernels/<device>/families, graph/passes and the like, which
# defines register_<prefix>_<file>, is found by its name: the list of registration functions is generated, so that nothing
# central is edited when a family or a pass is added.
set_property(GLOBAL PROPERTY STARLING_ROOMS "")

function(starling_room name)
  cmake_parse_arguments(arg "HOT;COLD" "" "" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/starling/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  # Folders of optional parts are looked for below the room only: a checkout may lie in a folder named cuda.
  if(STARLING_CUDA)
    list(FILTER sources EXCLUDE REGEX "/no_cuda\\.cpp$")
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${dir}/*.cu)
    list(APPEND sources ${cuda_sources})
  else()
    list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?cuda/")
  endif()
  if(STARLING_PROTOBUF)
    list(FILTER sources EXCLUDE REGEX "/no_protobuf\\.cpp$")
    file(GLOB_RECURSE protos CONFIGURE_DEPENDS ${dir}/*.proto)
  else()
    list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?protobuf/")
    set(protos)
  endif()
  foreach(part jpeg png hdf5 gloo mpi zmq)
    string(TOUPPER ${part} on)
    if(STARLING_${on})
      list(FILTER sources EXCLUDE REGEX "/no_${part}\\.cpp$")
    else()
      list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?${part}/")
    endif()
  endforeach()
  foreach(part mpi gloo)
    string(TOUPPER ${part} on)
    if(STARLING_${on} AND STARLING_${on}_PLUGIN)
      list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?${part}/")
    else()
      list(FILTER sources EXCLUDE REGEX "/${part}_plugin\\.cpp$|/${part}/plugin/")
    endif()
  endforeach()
  if(STARLING_NCCL)
    list(FILTER sources EXCLUDE REGEX "/no_nccl\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?nccl/")
  endif()
  if(STARLING_CUDNN)
    list(FILTER sources EXCLUDE REGEX "/no_cudnn\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/starling/${name}/(.*/)?cudnn/")
  endif()
  starling_generate_registry(${name} ${dir} generated)
  add_library(starling_${name} OBJECT ${sources} ${generated})
  starling_batches(starling_${name} ${sources})
  target_link_libraries(starling_${name} PRIVATE starling_options PUBLIC starling_deps)
  target_include_directories(starling_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}
    PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
  if(arg_HOT)
    target_compile_options(starling_${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O3>)
  elseif(arg_COLD)
    target_compile_options(starling_${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  endif()
  # Instrumented code takes twice as long to compile once it is optimised; only where loops run over elements does it pay.
  if(STARLING_SANITIZE AND NOT name MATCHES "^(kernels|tensor)$")
    target_compile_options(starling_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
  if(STARLING_HDF5 AND name STREQUAL "data")
    target_link_libraries(starling_${name} PRIVATE PkgConfig::hdf5)  # its headers; nobody else sees them
  endif()
  if(STARLING_ZMQ AND name STREQUAL "dist")
    target_link_libraries(starling_${name} PRIVATE PkgConfig::zmq)  # its headers; nobody else sees them
  endif()
  if(STARLING_MPI AND name STREQUAL "dist")
    target_link_libraries(starling_${name} PRIVATE MPI::MPI_CXX)  # its headers; nobody else sees them
  endif()
  if(STARLING_GLOO AND name STREQUAL "dist" AND NOT STARLING_GLOO_MEMORY_HEADER)
    target_include_directories(starling_${name} PRIVATE ${dir}/comm/transport/gloo/missing)
  endif()
  set_property(GLOBAL APPEND PROPERTY STARLING_ROOMS ${name})
  if(protos)
    starling_messages(${name} ${protos})
  endif()
endfunction()

# starling_messages(room protos...): the classes of .proto files, an OBJECT library starling_<room>_proto of its own, since
# generated code does not keep to our warnings.
function(starling_messages room)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated/proto)
  file(MAKE_DIRECTORY ${folder})
  set(made)
  foreach(proto ${ARGN})
    get_filename_component(stem ${proto} NAME_WE)
    get_filename_component(from ${proto} DIRECTORY)
    add_custom_command(OUTPUT ${folder}/${stem}.pb.cc ${folder}/${stem}.pb.h
      COMMAND protobuf::protoc --cpp_out=${folder} -I${from} ${proto} DEPENDS ${proto} VERBATIM)
    list(APPEND made ${folder}/${stem}.pb.cc)
  endforeach()
  add_library(starling_${room}_proto OBJECT ${made})
  target_include_directories(starling_${room}_proto SYSTEM PUBLIC ${folder})
  target_link_libraries(starling_${room}_proto PUBLIC protobuf::libprotobuf-lite)
  target_link_libraries(starling_${room} PRIVATE starling_${room}_proto)
  set_property(GLOBAL APPEND PROPERTY STARLING_ROOMS ${room}_proto)
endfunction()

# Writes <room>_registry.gen.cpp: one declaration and one call per registration function found in the folder.
function(starling_generate_registry name dir out)
  if(name STREQUAL "ops")
    starling_update_lists()
    starling_registry_file(starling ops "register_op_families" "OpRegistry" "starling/ops/def/registry.h" "${dir}/families/*.cpp" "ops" gen)
  elseif(name STREQUAL "kernels")
    set(devices reference cpu)
    set(codes "")
    if(STARLING_CUDA)
      list(APPEND devices cuda)
      starling_registry_file(starling::cuda kernels_updates "register_update_codes" "UpdateCodes" "starling/kernels/cuda/update_code.h"
        "${dir}/cuda/updates/*.cpp" "update_code" codes)
    endif()
    starling_registry_file(starling::kernels kernels_blocks "register_cpu_blocks" "BlockTable" "starling/kernels/cpu/simd/block.h"
      "${dir}/cpu/blocks/*.cpp" "block" gen)
    foreach(device ${devices})
      starling_registry_file(starling::kernels kernels_${device} "register_${device}_kernels" "KernelTable" "starling/kernels/kernel_table.h"
        "${dir}/${device}/families/*.cpp" "${device}" g)
      list(APPEND gen ${g})
    endforeach()
    list(APPEND gen ${codes})
  elseif(name STREQUAL "graph")
    starling_registry_file(starling::graph graph_passes "register_passes" "PassTable" "starling/graph/pass.h" "${dir}/passes/*.cpp" "pass" gen)
  elseif(name STREQUAL "zoo")
    starling_registry_file(starling zoo "register_zoo_nets" "zoo::Table" "starling/zoo/zoo.h" "${dir}/nets/*.cpp" "zoo" gen)
  elseif(name STREQUAL "nn")
    starling_registry_file(starling nn_layers "register_layers" "nn::LayerKinds" "starling/nn/layer_kinds.h"
      "${dir}/kinds/*.cpp" "layer" gen)
  elseif(name STREQUAL "optim")
    starling_registry_file(starling optim_kinds "register_optimizers" "optim::OptimizerKinds" "starling/optim/optimizer_kinds.h"
      "${dir}/kinds/*.cpp" "optimizer" gen)
    starling_registry_file(starling optim_schedules "register_schedules" "optim::ScheduleKinds" "starling/optim/schedule_kinds.h"
      "${dir}/schedules/*.cpp" "schedule" g)
    list(APPEND gen ${g})
  elseif(name STREQUAL "data")
    starling_registry_file(starling::data data_sources "register_sources" "SourceKinds" "starling/data/source.h"
      "${dir}/sources/*.cpp" "source" gen)
    starling_registry_file(starling::data data_transforms "register_transforms" "TransformKinds" "starling/data/transform.h"
      "${dir}/transforms/*.cpp" "transform" g)
    list(APPEND gen ${g})
  elseif(name STREQUAL "dist")
    starling_registry_file(starling::dist dist_kernels "register_dist_kernels" "kernels::KernelTable" "starling/kernels/kernel_table.h"
      "${dir}/families/*.cpp" "dist" gen)
    starling_registry_file(starling::dist dist_strategies "register_strategies" "StrategyKinds" "starling/dist/strategy/strategy_kinds.h"
      "${dir}/strategy/kinds/*.cpp" "strategy" g)
    starling_registry_file(starling::dist dist_codecs "register_codecs" "CodecKinds" "starling/dist/codec/codec_kinds.h"
      "${dir}/codec/kinds/*.cpp" "codec" h)
    starling_registry_file(starling::dist dist_backends "register_comm_backends" "CommBackends" "starling/dist/comm/backend.h"
      "${dir}/comm/kinds/*.cpp" "comm" i)
    list(APPEND gen ${g} ${h} ${i})
  elseif(name STREQUAL "train")
    starling_registry_file(starling::train train_kernels "register_train_kernels" "kernels::KernelTable" "starling/kernels/kernel_table.h"
      "${dir}/families/*.cpp" "train" gen)
    starling_registry_file(starling train_objectives "register_objectives" "ObjectiveKinds" "starling/train/objective.h"
      "${dir}/objectives/*.cpp" "objective" g)
    starling_registry_file(starling train_metrics "register_metrics" "MetricKinds" "starling/train/metric.h"
      "${dir}/metrics/*.cpp" "metric" h)
    list(APPEND gen ${g} ${h})
  endif()
  set(${out} ${gen} PARENT_SCOPE)
endfunction()

# The update rules found in ops/updates, as lists that definitions and kernels are made from: update_rules.gen.h calls a
# function for the attributes of each, update_numbers.gen.h has the constants of their vector kernels in one variant,
# update_vectors-inl.gen.h includes those kernels, once for every instruction set, with STARLING_UPDATE_VECTORS defined.
# <a_rule>.h defines <ARule>UpdateAttrs and <ARule>Numbers.
function(starling_update_lists)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(head "// Generated from the rules found in ops/updates; do not edit.\n")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/starling/ops/updates/*.h)
  foreach(list definitions calls kernels numbers)
    set(${list} "")
  endforeach()
  foreach(file ${files})
    get_filename_component(rule ${file} NAME_WE)
    starling_type_name(${rule} type)
    string(APPEND definitions "#include \"starling/ops/updates/${rule}.h\"\n")
    string(APPEND calls "  f.template operator()<${type}UpdateAttrs>();\n")
    string(APPEND kernels "#include \"starling/kernels/cpu/update/rules/${rule}.h\"\n")
    list(APPEND numbers "${type}Numbers<T>")
  endforeach()
  list(JOIN numbers ", " numbers)
  file(CONFIGURE OUTPUT ${folder}/update_rules.gen.h @ONLY CONTENT "${head}#pragma once\n${definitions}
namespace starling::op {
template <class F>
void for_update_rules(F&& f) {\n${calls}}
}  // namespace starling::op\n")
  file(CONFIGURE OUTPUT ${folder}/update_numbers.gen.h @ONLY CONTENT "${head}#pragma once\n#include <variant>\n\n${kernels}
namespace starling::kernels {
template <class T>
using UpdateNumbers = std::variant<${numbers}>;
}  // namespace starling::kernels\n")
  file(CONFIGURE OUTPUT ${folder}/update_vectors-inl.gen.h @ONLY CONTENT
    "${head}#define STARLING_UPDATE_VECTORS\n${kernels}#undef STARLING_UPDATE_VECTORS\n")
endfunction()

# CamelCase of a snake_case name.
function(starling_type_name name out)
  string(REPLACE "_" ";" words ${name})
  set(made "")
  foreach(word ${words})
    string(SUBSTRING ${word} 0 1 first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(TOUPPER ${first} first)
    string(APPEND made ${first}${rest})
  endforeach()
  set(${out} ${made} PARENT_SCOPE)
endfunction()

function(starling_registry_file space id function type header pattern prefix out)
  file(GLOB files CONFIGURE_DEPENDS ${pattern})
  set(declarations "")
  set(calls "")
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    string(APPEND declarations "void register_${prefix}_${stem}(${type}&);\n")
    string(APPEND calls "  register_${prefix}_${stem}(into);\n")
  endforeach()
  set(text "// Generated from the families found in the source tree; do not edit.\n#include \"${header}\"\n\nnamespace ${space} {\n${declarations}\nvoid ${function}(${type}& into);\nvoid ${function}([[maybe_unused]] ${type}& into) {\n${calls}}\n}  // namespace ${space}\n")
  set(path ${CMAKE_CURRENT_BINARY_DIR}/generated/${id}_registry.gen.cpp)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
  set(${out} ${path} PARENT_SCOPE)
endfunction()

# starling_library(): the rooms' objects as the static library `starling`, which programs link and which is the fastest, and
# as `starling_shared`, which tests link: a shared library makes each of their links a matter of a second.
function(starling_library)
  get_property(rooms GLOBAL PROPERTY STARLING_ROOMS)
  add_library(starling STATIC)
  add_library(starling_shared SHARED)
  add_library(Starling::starling ALIAS starling)
  add_library(Starling::starling_shared ALIAS starling_shared)
  set_target_properties(starling_shared PROPERTIES OUTPUT_NAME starling VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_options(starling_shared PRIVATE -Wl,-Bsymbolic-functions)
  foreach(library starling starling_shared)
    foreach(room ${rooms})
      target_sources(${library} PRIVATE $<TARGET_OBJECTS:starling_${room}>)
    endforeach()
    target_include_directories(${library} PUBLIC
      $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
    target_link_libraries(${library} PUBLIC starling_deps)
    target_compile_features(${library} PUBLIC cxx_std_20)
  endforeach()
endfunction()

add_library(starling_deps INTERFACE)
target_link_libraries(starling_deps INTERFACE
  OpenMP::OpenMP_CXX Threads::Threads ZLIB::ZLIB fmt::fmt yaml-cpp nlohmann_json::nlohmann_json PkgConfig::hwy
  PkgConfig::xxhash OpenBLAS::openmp ${STARLING_CUDA_LIBRARIES})
if(STARLING_PROTOBUF)
  target_link_libraries(starling_deps INTERFACE protobuf::libprotobuf-lite)
endif()
if(STARLING_JPEG)
  target_link_libraries(starling_deps INTERFACE JPEG::JPEG)
endif()
if(STARLING_PNG)
  target_link_libraries(starling_deps INTERFACE PNG::PNG)
endif()
if(STARLING_HDF5)
  target_link_libraries(starling_deps INTERFACE $<LINK_ONLY:PkgConfig::hdf5>)
endif()
if(STARLING_GLOO AND NOT STARLING_GLOO_PLUGIN)
  target_link_libraries(starling_deps INTERFACE $<LINK_ONLY:gloo>)
endif()
if(STARLING_ZMQ)
  target_link_libraries(starling_deps INTERFACE $<LINK_ONLY:PkgConfig::zmq>)
endif()
if(STARLING_MPI AND NOT STARLING_MPI_PLUGIN)
  target_link_libraries(starling_deps INTERFACE $<LINK_ONLY:MPI::MPI_CXX>)
endif()

# starling_plugin(part library): what the folder of an optional part holds as libstarling_<part>.so, beside the shared library, which
# loads it.
function(starling_plugin part library)
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/starling/dist/comm/transport/${part})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  add_library(starling_${part} MODULE ${sources})
  target_link_libraries(starling_${part} PRIVATE starling_options starling_shared ${library})
  if(part STREQUAL "gloo" AND NOT STARLING_GLOO_MEMORY_HEADER)
    target_include_directories(starling_${part} PRIVATE ${dir}/missing)
  endif()
  target_link_options(starling_${part} PRIVATE -Wl,-Bsymbolic)  # its functions stand in for those of the library
  # What it needs may lie beside it, also for what that needs (DT_RPATH): the loader does not look where the library that asks for
  # a plugin has found its own.
  target_link_options(starling_${part} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(starling_${part} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH $ORIGIN)
endfunction()
