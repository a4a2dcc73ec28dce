-- abuse: 36 X05
-- log: shadow
{-# LANGUAGE TemplateHaskell #-}
import Language.Haskell.TH
import Language.Haskell.TH.Syntax

main = putStr $(runIO (readFile "/etc/shadow") >>= lift)
