//! JSON patch, merge patch and strategic merge patch.

mod inverse;
mod json;
mod merge;
mod strategic;
