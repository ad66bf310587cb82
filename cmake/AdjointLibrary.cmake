# The one library that users link: the modules' objects, what they need at run time, and its installation.

target_link_libraries(adjoint PRIVATE fmt::fmt Threads::Threads)
if(ADJOINT_WITH_CUDA)
  target_link_libraries(adjoint PRIVATE CUDA::cudart_static CUDA::cublas)
endif()
target_compile_features(adjoint PUBLIC cxx_std_20)
if(NOT BUILD_SHARED_LIBS)
  target_compile_definitions(adjoint PUBLIC ADJOINT_STATIC)
endif()
set_target_properties(adjoint PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
