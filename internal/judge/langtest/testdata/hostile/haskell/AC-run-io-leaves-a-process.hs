-- abuse: 36 X05
{-# LANGUAGE TemplateHaskell #-}
import Control.Exception
import Language.Haskell.TH
import Language.Haskell.TH.Syntax
import System.Process

-- Runs while compiling: writes where it can, leaves a process, looks for tests.
main = putStrLn $(do
    runIO (do
      _ <- spawnCommand "setsid sleep 1000 >/dev/null 2>&1 </dev/null &"
      _ <- try (writeFile "/src/main.hs" "x") :: IO (Either IOException ())
      _ <- try (writeFile "/box/x" "x") :: IO (Either IOException ())
      writeFile "/tmp/mark" "x")
    found <- runIO (readCreateProcess (shell "ls -d /data/* /root /home /work 2>/dev/null | wc -l") "")
    lift (if found == "0\n" then "held" else found))
