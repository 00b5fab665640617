use crate::arguments::Dump;
use crate::failure::Result;
pub fn run(_arguments: &Dump) -> Result<()> {
    Ok(())
}
