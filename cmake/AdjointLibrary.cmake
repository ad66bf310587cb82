# The library that users link: the modules' objects, the libraries that they need at run time, and the installation.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set_target_properties(adjoint PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH_USE_LINK_PATH ON)
target_compile_features(adjoint PUBLIC cxx_std_20)
target_link_libraries(adjoint PRIVATE fmt::fmt Threads::Threads)
if(ADJOINT_WITH_CUDA)
  target_link_libraries(adjoint PRIVATE CUDA::cudart_static CUDA::cublas CUDA::cufft)
endif()
if(BUILD_SHARED_LIBS)
  if(NOT ADJOINT_SANITIZE)  # the program links a sanitizer's run time
    target_link_options(adjoint PRIVATE LINKER:--no-undefined)
  endif()
else()
  target_compile_definitions(adjoint PUBLIC ADJOINT_STATIC)
endif()

# <adjoint/adjoint.h>, for programs that use the library as a whole.
set(ADJOINT_UMBRELLA ${PROJECT_BINARY_DIR}/include/umbrella)
file(MAKE_DIRECTORY ${ADJOINT_UMBRELLA}/adjoint)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/adjoint.h ${ADJOINT_UMBRELLA}/adjoint/adjoint.h SYMBOLIC)
target_include_directories(adjoint PUBLIC
  $<BUILD_INTERFACE:${ADJOINT_UMBRELLA}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# ---- Installation

install(TARGETS adjoint EXPORT AdjointTargets)
install(CODE "
  set(ADJOINT_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\")
  set(ADJOINT_INCLUDE_DIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  set(ADJOINT_DATA \"${ADJOINT_DATA}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake)
install(FILES core/gdb/adjoint_printers.py DESTINATION ${CMAKE_INSTALL_DATADIR}/adjoint/gdb)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Adjoint)
install(EXPORT AdjointTargets NAMESPACE Adjoint:: DESTINATION ${package_dir})
configure_package_config_file(cmake/AdjointConfig.cmake.in ${PROJECT_BINARY_DIR}/AdjointConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/AdjointConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/AdjointConfig.cmake ${PROJECT_BINARY_DIR}/AdjointConfigVersion.cmake
        DESTINATION ${package_dir})

set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
string(REGEX REPLACE "[^/]+" ".." ADJOINT_PREFIX_FROM_PKGCONFIG ${pkgconfig_dir})
configure_file(cmake/adjoint.pc.in ${PROJECT_BINARY_DIR}/adjoint.pc @ONLY)
if(BUILD_SHARED_LIBS)  # only CMake's package names a static library's dependencies
  install(FILES ${PROJECT_BINARY_DIR}/adjoint.pc DESTINATION ${pkgconfig_dir})
endif()
