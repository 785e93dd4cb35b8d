# `cpack` in a build folder: starling_<version>_<architecture>.deb and a tarball, each with the program, the library static and
# shared, its headers, the CMake package, the example jobs and the presets of `starling systems`.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME starling)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR "The Starling authors")
set(CPACK_PACKAGE_CONTACT "The Starling authors <starling@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Distributed deep learning: one graph, many workers")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME starling-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)

# Libraries that the program loads are found by dpkg-shlibdeps; headers of a project that links Starling are listed.
list(JOIN STARLING_DEV_PACKAGES ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src)  # libstarling_c.so stands on libstarling.so
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, cmake, dataset-fashion-mnist")
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)
include(CPack)
