# cmake -D build=... -D work=... -D generator=... -D compiler=... -D build_type=... -D python=... -P build_outside.cmake
# Each step must succeed; the outside project lives under `work`, with nothing of the source tree in its paths.
file(REMOVE_RECURSE ${work})
file(COPY ${CMAKE_CURRENT_LIST_DIR}/outside DESTINATION ${work})

function(step)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed with ${status}: ${command}")
  endif()
endfunction()

step(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
foreach(script bash-completion/completions/starling zsh/site-functions/_starling fish/vendor_completions.d/starling.fish)
  if(NOT EXISTS ${work}/prefix/share/${script})
    message(FATAL_ERROR "expected an installed share/${script}, got none")
  endif()
endforeach()
step(${CMAKE_COMMAND} -S ${work}/outside -B ${work}/build -G ${generator} -D CMAKE_PREFIX_PATH=${work}/prefix
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=${build_type})
step(${CMAKE_COMMAND} --build ${work}/build)
step(${work}/build/outside)
# The example in C, found by a project in C alone and by pkg-config; the install prefix is not the one configured.
file(COPY ${CMAKE_CURRENT_LIST_DIR}/outside_c ${CMAKE_CURRENT_LIST_DIR}/../../examples/c/lenet.c DESTINATION ${work})
set(job "name: synthetic, train_samples: 64, test_samples: 20" 2)
step(${CMAKE_COMMAND} -S ${work}/outside_c -B ${work}/build_c -G ${generator} -D CMAKE_PREFIX_PATH=${work}/prefix
  -D CMAKE_BUILD_TYPE=${build_type})
step(${CMAKE_COMMAND} --build ${work}/build_c)
step(${work}/build_c/lenet ${job})
find_program(PKG_CONFIG pkg-config)
find_program(CC NAMES cc gcc clang)
if(PKG_CONFIG AND CC)
  file(GLOB_RECURSE pc ${work}/prefix/*/starling_c.pc)
  cmake_path(GET pc PARENT_PATH pkgconfig)
  cmake_path(GET pkgconfig PARENT_PATH lib)
  set(ENV{PKG_CONFIG_PATH} ${pkgconfig})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs starling_c OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  step(${CC} -std=c99 ${work}/lenet.c ${flags} -o ${work}/lenet)
  step(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${lib} ${work}/lenet ${job})
endif()
# Presets are installed with the program and found by name, from any folder.
step(${work}/prefix/bin/starling validate --no-data sparknet)
step(${work}/build/outside_shared)
step(${work}/build/outside_c)

# The tutorial's own project, from the page's text.
step(${python} ${CMAKE_CURRENT_LIST_DIR}/write_project.py ${CMAKE_CURRENT_LIST_DIR}/../../docs/tutorial.md ${work}/first
  CMakeLists.txt main.cpp)
step(${CMAKE_COMMAND} -S ${work}/first -B ${work}/first/build -G ${generator} -D CMAKE_PREFIX_PATH=${work}/prefix
  -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=${build_type})
step(${CMAKE_COMMAND} --build ${work}/first/build)
execute_process(COMMAND ${work}/first/build/first OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(NOT printed MATCHES "y = 3 x \\+ 2\n$")
  message(FATAL_ERROR "expected the tutorial's program to print y = 3 x + 2, got:\n${printed}")
endif()
