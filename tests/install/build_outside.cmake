# cmake -D build=... -D work=... -D generator=... -D compiler=... -D build_type=... -P build_outside.cmake
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
# Presets are installed with the program and found by name, from any folder.
step(${work}/prefix/bin/starling validate --no-data sparknet)
step(${work}/build/outside_shared)
step(${work}/build/outside_c)
