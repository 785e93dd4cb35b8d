# Run as the wheel is put together, in `lib`, its folder of libraries: copies there what libstarling.so and the libraries that it
# loads when ranks ask for them (`plugins`) need, but the C and C++ runtimes and MPI, which are the machine's. `carried`: programs
# and libraries of the wheel that must need no MPI, nor may what is copied for them: `import starling` would fail where none is.
include("${CMAKE_CURRENT_LIST_DIR}/../cmake/StarlingNeedsMpi.cmake")

# A path of its own would hide that folder from what a library needs; the build's paths mean nothing elsewhere. Plugins have that
# of their own folder alone.
file(GLOB own "${lib}/libstarling.so*")
foreach(file ${own})
  file(RPATH_REMOVE FILE "${file}")
endforeach()

set(runtimes ld-linux.* libc libm libdl librt libpthread libresolv libutil libstdc.* libgcc_s libmpi.* libopen-.* libstarling.*)
list(JOIN runtimes | runtimes)

function(copy_needed out)
  file(GET_RUNTIME_DEPENDENCIES ${ARGN} RESOLVED_DEPENDENCIES_VAR needed PRE_EXCLUDE_REGEXES "^(${runtimes})\\.so")
  foreach(file ${needed})
    # Under the name that it is asked for by; a wheel has no links.
    cmake_path(GET file FILENAME name)
    file(REAL_PATH "${file}" real)
    file(COPY_FILE "${real}" "${lib}/${name}")
  endforeach()
  set(${out} ${needed} PARENT_SCOPE)
endfunction()

copy_needed(needed LIBRARIES "${shared}")
starling_needs_mpi(READELF "${readelf}" FILES ${shared} ${carried} ${needed} OUT asking)
if(asking)
  list(JOIN asking ", " asking)
  message(FATAL_ERROR "[wheel] expected that what `import starling` loads needs no MPI, which a wheel does not carry, got: ${asking}. "
    "Build the part that brings it as a library of its own, as STARLING_MPI_PLUGIN does with MPI and Gloo, or without it")
endif()
if(plugins)
  copy_needed(needed MODULES ${plugins})
endif()
