//! Checking an upload.
