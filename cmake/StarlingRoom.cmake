# starling_room(name): an OBJECT library `starling_<name>` of every .cpp below src/starling/<name>.
#
# Optional parts live in folders: files below */cuda/ are compiled when STARLING_CUDA is on; files named no_cuda.cpp when it
# is off; */protobuf/ and no_protobuf.cpp alike, and messages are made of the .proto files there; and so for */jpeg/ and
# */png/. Every file below ops/families and kernels/<device> that defines register_<file> is found by its name: the list of
# registration functions is generated, so that nothing central is edited when a family is added.
set_property(GLOBAL PROPERTY STARLING_ROOMS "")

function(starling_room name)
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/starling/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  if(STARLING_CUDA)
    list(FILTER sources EXCLUDE REGEX "/no_cuda\\.cpp$")
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${dir}/*.cu)
    list(APPEND sources ${cuda_sources})
  else()
    list(FILTER sources EXCLUDE REGEX "/cuda/")
  endif()
  if(STARLING_PROTOBUF)
    list(FILTER sources EXCLUDE REGEX "/no_protobuf\\.cpp$")
    file(GLOB_RECURSE protos CONFIGURE_DEPENDS ${dir}/*.proto)
  else()
    list(FILTER sources EXCLUDE REGEX "/protobuf/")
    set(protos)
  endif()
  foreach(part jpeg png)
    string(TOUPPER ${part} on)
    if(STARLING_${on})
      list(FILTER sources EXCLUDE REGEX "/no_${part}\\.cpp$")
    else()
      list(FILTER sources EXCLUDE REGEX "/${part}/")
    endif()
  endforeach()
  starling_generate_registry(${name} ${dir} generated)
  add_library(starling_${name} OBJECT ${sources} ${generated})
  target_link_libraries(starling_${name} PRIVATE starling_options PUBLIC starling_deps)
  target_include_directories(starling_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
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
    starling_registry_file(ops "register_op_families" "OpRegistry" "starling/ops/registry.h" "${dir}/families/*.cpp" "ops" gen)
  elseif(name STREQUAL "kernels")
    set(devices reference cpu)
    if(STARLING_CUDA)
      list(APPEND devices cuda)
    endif()
    starling_registry_file(kernels_blocks "register_cpu_blocks" "BlockTable" "starling/kernels/cpu/simd/block.h"
      "${dir}/cpu/blocks/*.cpp" "block" gen)
    foreach(device ${devices})
      starling_registry_file(kernels_${device} "register_${device}_kernels" "KernelTable" "starling/kernels/kernel_table.h"
        "${dir}/${device}/families/*.cpp" "${device}" g)
      list(APPEND gen ${g})
    endforeach()
  elseif(name STREQUAL "zoo")
    starling_registry_file(zoo "register_zoo_nets" "zoo::Table" "starling/zoo/zoo.h" "${dir}/nets/*.cpp" "zoo" gen)
  elseif(name STREQUAL "nn")
    starling_registry_file(nn_layers "register_layers" "nn::LayerKinds" "starling/nn/layer_kinds.h"
      "${dir}/kinds/*.cpp" "layer" gen)
  elseif(name STREQUAL "optim")
    starling_registry_file(optim_kinds "register_optimizers" "optim::OptimizerKinds" "starling/optim/optimizer_kinds.h"
      "${dir}/kinds/*.cpp" "optimizer" gen)
    starling_registry_file(optim_schedules "register_schedules" "optim::ScheduleKinds" "starling/optim/schedule_kinds.h"
      "${dir}/schedules/*.cpp" "schedule" g)
    list(APPEND gen ${g})
  elseif(name STREQUAL "data")
    starling_registry_file(data_sources "register_sources" "SourceKinds" "starling/data/source.h"
      "${dir}/sources/*.cpp" "source" gen)
    starling_registry_file(data_transforms "register_transforms" "TransformKinds" "starling/data/transform.h"
      "${dir}/transforms/*.cpp" "transform" g)
    list(APPEND gen ${g})
  elseif(name STREQUAL "dist")
    starling_registry_file(dist_kernels "register_dist_kernels" "KernelTable" "starling/kernels/kernel_table.h"
      "${dir}/families/*.cpp" "dist" gen)
    starling_registry_file(dist_strategies "register_strategies" "StrategyKinds" "starling/dist/strategy/strategy_kinds.h"
      "${dir}/strategy/kinds/*.cpp" "strategy" g)
    list(APPEND gen ${g})
  elseif(name STREQUAL "train")
    starling_registry_file(train_kernels "register_train_kernels" "KernelTable" "starling/kernels/kernel_table.h"
      "${dir}/families/*.cpp" "train" gen)
    starling_registry_file(train_objectives "register_objectives" "ObjectiveKinds" "starling/train/objective.h"
      "${dir}/objectives/*.cpp" "objective" g)
    starling_registry_file(train_metrics "register_metrics" "MetricKinds" "starling/train/metric.h"
      "${dir}/metrics/*.cpp" "metric" h)
    list(APPEND gen ${g} ${h})
  endif()
  set(${out} ${gen} PARENT_SCOPE)
endfunction()

function(starling_registry_file id function type header pattern prefix out)
  file(GLOB files CONFIGURE_DEPENDS ${pattern})
  set(declarations "")
  set(calls "")
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    string(APPEND declarations "void register_${prefix}_${stem}(${type}&);\n")
    string(APPEND calls "  register_${prefix}_${stem}(into);\n")
  endforeach()
  set(text "// Generated from the families found in the source tree; do not edit.\n#include \"${header}\"\n\nnamespace starling {\n${declarations}\nvoid ${function}(${type}& into);\nvoid ${function}([[maybe_unused]] ${type}& into) {\n${calls}}\n}  // namespace starling\n")
  set(path ${CMAKE_CURRENT_BINARY_DIR}/generated/${id}_registry.gen.cpp)
  file(CONFIGURE OUTPUT ${path} CONTENT "${text}" @ONLY)
  set(${out} ${path} PARENT_SCOPE)
endfunction()

function(starling_library)
  get_property(rooms GLOBAL PROPERTY STARLING_ROOMS)
  add_library(starling STATIC)
  add_library(Starling::starling ALIAS starling)
  foreach(room ${rooms})
    target_sources(starling PRIVATE $<TARGET_OBJECTS:starling_${room}>)
  endforeach()
  target_include_directories(starling PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(starling PUBLIC starling_deps)
  target_compile_features(starling PUBLIC cxx_std_20)
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
